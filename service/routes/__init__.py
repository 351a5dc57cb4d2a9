"""The routes: validate, await the engine, shape the reply."""
