"""The terminal side of every command: exits, prompts, progress, tables, output."""
