"""The decisions: pure functions of events, which give instructions; read pool_state.py first."""
