"""Topics, partitioners, retention and groups: what every engine gets for free."""
