"""The pure rules of sessions: messages, windows, summaries, transcripts and search."""
