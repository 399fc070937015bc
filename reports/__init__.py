"""Pages and tables people read: results in, text out. Pure; the only room that knows plotly."""
