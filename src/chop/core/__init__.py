"""What everything else is made of: questions, programs, runs, traces. Needs torch and numpy only."""
