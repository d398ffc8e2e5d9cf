"""What stands between the library and files that anyone may have written."""
