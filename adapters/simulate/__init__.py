"""Playing recorded sessions through the engine, with their times, their usage and a log of what would have been sent."""
