// Package operator inspects locks for all tools of operators: the command's subcommands that show
// locks, and the page of contrib/relockui.
package operator
