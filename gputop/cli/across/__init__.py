"""Commands that read several machines together."""
