"""What measuring needs: who works, how far the work is, what tells data and code apart."""
