"""Routes of queues: receive and settle, also over one WebSocket; policies; dead letters."""
