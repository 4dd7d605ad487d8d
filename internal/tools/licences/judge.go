package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// permissive are the licences that bind a user to nothing but handing on their text. Each is told by all of its phrases.
var permissive = []struct {
	name    string
	phrases []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "may be used to endorse or promote products"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms"}},
	{"BSL-1.0", []string{"boost software license - version 1.0"}},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute this software for any purpose"}},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy of this software"}},
	{"Unlicense", []string{"this is free and unencumbered software released into the public domain"}},
}

// binding are phrases of licences that ask for more. A text with one of them is refused, whatever else it says: a person
// reads it, and decides.
var binding = []string{
	"general public license", "general public licence", "mozilla public license", "eclipse public license", "server side public",
	"business source", "commons clause", "elastic license", "creative commons", "common development and distribution",
	"european union public", "for non-commercial", "noncommercial", "gpl", "sspl",
}

// licencesOf returns the licences in a text, or why it is refused.
func licencesOf(text string) (all []string, err error) {
	text = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	for _, phrase := range binding {
		if strings.Contains(text, phrase) {
			return nil, fmt.Errorf("it says %q", phrase)
		}
	}
	for _, l := range permissive {
		missing := func(phrase string) bool { return !strings.Contains(text, phrase) }
		if slices.ContainsFunc(l.phrases, missing) || l.name == "BSD-2-Clause" && slices.Contains(all, "BSD-3-Clause") {
			continue
		}
		all = append(all, l.name)
	}
	if len(all) == 0 {
		err = fmt.Errorf("it is none of those known to bind nobody")
	}
	return all, err
}

// isNotice reports whether a file is no licence, but names authors, and is handed on with the licence.
func isNotice(file string) bool {
	return strings.HasPrefix(strings.ToLower(filepath.Base(file)), "notice")
}

// licences returns the licences of the module's files.
func (m *module) licences() (all []string, err error) {
	for _, file := range m.texts() {
		if isNotice(file) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some, err := licencesOf(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: the licence in %s is refused: %w", m.path, file, err)
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no licence in %s", m.path, m.dir)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (m *module) judge() error {
	_, err := m.licences()
	return err
}

// texts returns the files to hand on, in order.
func (m *module) texts() []string {
	all := make([]string, 0, len(m.files))
	for file := range m.files {
		all = append(all, file)
	}
	slices.Sort(all)
	return all
}
