package main

import (
	"fmt"
	"os"
	"strings"
)

const opening = `# Third-party software

In short: relock is under the MIT licence. What it is built from is in the public domain or under the MIT, BSD, Apache 2.0
and Boost licences. These ask for their texts to be handed on, and bind a user of relock to nothing else. The texts are below,
and every archive and package of the command contains this file.

` + "`make licences`" + ` writes this file from what the released modules import, on Linux, macOS and Windows. ` + "`make lint`" + ` fails if a
module is missing here, or has a licence that is none of these. Versions stand in each go.mod, those of a binary in its SBOM.

The last column says what a user compiles a module into: the library, the command, or a module below ` + "`contrib`" + `. Where it says
"tests", only the tests of this repository use the module.

`

// page returns the list. The caller has judged the modules.
func page(all []*module) []byte {
	var out strings.Builder
	out.WriteString(opening)
	out.WriteString(tableHead)
	texts, order := make(map[string][]string), []string(nil)
	for _, m := range all {
		names, _ := m.licences()
		in := strings.Join(m.in, ", ")
		if in == "" {
			in = "tests"
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", m.path, strings.Join(names, ", "), in)
		if len(m.in) == 0 {
			continue
		}
		for _, file := range m.texts() {
			text, _ := os.ReadFile(file)
			plain := strings.Trim(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
			if texts[plain] == nil {
				order = append(order, plain)
			}
			texts[plain] = append(texts[plain], m.path)
		}
	}
	out.WriteString("\n## Texts\n")
	for _, text := range order {
		fmt.Fprintf(&out, "\n%s:\n\n```text\n%s\n```\n", strings.Join(texts[text], ", "), text)
	}
	return []byte(out.String())
}

const tableHead = "| module | licence | in |\n|---|---|---|\n"

// listed returns the licences of the modules in a page's table.
func listed(file string) (map[string][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, table, found := strings.Cut(string(text), tableHead)
	if !found {
		return nil, fmt.Errorf("%s has no table of licences", file)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	all := make(map[string][]string)
	for line := range strings.Lines(table) {
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) == 3 {
			all[cells[0]] = strings.Split(cells[1], ", ")
		}
	}
	return all, nil
}
