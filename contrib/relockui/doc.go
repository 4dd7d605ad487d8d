// Package relockui is a web page for operators. It shows which locks are held, by whom, and who waits.
// WithForce adds a button that frees a lock. Handler serves the page from any server:
//
//	mux.Handle("/locks/", http.StripPrefix("/locks", relockui.Handler(locks)))
//
// The page asks for no password: put it behind what protects your other pages for operators. Without
// WithForce it only reads, by short commands, which all its viewers share.
package relockui
