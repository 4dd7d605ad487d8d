//go:build simoverlay

// This file lets seeded.go declare a function without a body.
