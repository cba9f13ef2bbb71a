"""The page of the browser: template, style and script, which fetch nothing from other servers."""
