"""The session: what one pytest run knows, in its two roles (controller and runner). The only room with pytest."""
