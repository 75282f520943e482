"""The decisions: pure functions of events, which give instructions; read state.py first."""
