"""What all pages share: sessions, rendering, live updates, uploads and static files."""
