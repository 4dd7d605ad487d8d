// Package relockui is a page for operators: which locks are held, by whom, who waits, and, where
// that is wanted, a button that frees one. Handler serves it from any server:
//
//	mux.Handle("/locks/", http.StripPrefix("/locks", relockui.Handler(rdb)))
//
// It asks for no password: put it behind what protects your other pages for operators. It only
// reads, by short commands, however many look at it, unless WithForce is given.
package relockui
