"""The page that the browser is sent: its template, style and script, which fetch nothing from elsewhere."""
