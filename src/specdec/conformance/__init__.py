"""Is a sampler lossless? For now the wrong twins of every rule, each a realistic mistake that the tests must catch."""
