// Package operator is what all tools for operators see of locks: the command's subcommands that
// show locks, and the page of contrib/relockui.
package operator
