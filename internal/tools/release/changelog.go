package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

var heading = regexp.MustCompile(`(?m)^## (.*)\n`)

var dated = regexp.MustCompile(`(?m)^## (v\S+) \(\d{4}-\d\d-\d\d\)$`)

// released returns the version of the changelog's first section that is dated, or "".
func released(text []byte) string {
	if match := dated.FindSubmatch(text); match != nil {
		return string(match[1])
	}
	return ""
}

// changes dates the section of a version, which must be the changelog's first. It returns the changelog
// with that, and the section's text.
func changes(text []byte, version string, day time.Time) (dated []byte, section string, err error) {
	waiting := "Unreleased (" + version + ")"
	at := heading.FindSubmatchIndex(text)
	if at == nil || string(text[at[2]:at[3]]) != waiting {
		return nil, "", fmt.Errorf("CHANGELOG.md does not begin with a section ## %s", waiting)
	}
	section = string(text[at[1]:])
	if next := heading.FindStringIndex(section); next != nil {
		section = section[:next[0]]
	}
	if strings.TrimSpace(section) == "" {
		return nil, "", fmt.Errorf("CHANGELOG.md says nothing of %s", version)
	}
	title := fmt.Sprintf("%s (%s)", version, day.UTC().Format(time.DateOnly))
	return append(append(append(dated, text[:at[2]]...), title...), text[at[3]:]...), section, nil
}
