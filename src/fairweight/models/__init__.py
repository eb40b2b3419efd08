"""Networks that come with fairweight; users bring their own, unmodified."""
