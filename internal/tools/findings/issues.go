package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// label marks the issues that this command filed. Only maintainers can give a label, so no stranger's issue passes for one.
const label = "found-by-ci"

type issue struct {
	Number   int
	Title    string
	Body     string
	Comments []struct{ Body string }
}

// tells reports whether the issue has the text.
func (i *issue) tells(text string) bool {
	all := i.Body
	for _, c := range i.Comments {
		all += "\n" + c.Body
	}
	return strings.Contains(strings.ReplaceAll(all, "\r", ""), text)
}

// fileAll files findings that have no open issue, and comments on the issues of the others. It goes on after a failure.
func fileAll(found []finding, footer string) error {
	if _, err := gh("", "label", "create", label, "--force", "--color", "b60205", "--description", "Found by the weekly run"); err != nil {
		return err
	}
	out, err := gh("", "issue", "list", "--state", "open", "--label", label, "--limit", "1000", "--json", "number,title,body,comments")
	if err != nil {
		return err
	}
	var open []issue
	if err := json.Unmarshal(out, &open); err != nil {
		return fmt.Errorf("the list of issues: %w", err)
	}
	var failure error
	for _, f := range found {
		if err := fileOne(f, open, footer); err != nil {
			failure = err
			fmt.Fprintln(os.Stderr, "findings:", f.title+":", err)
		}
	}
	return failure
}

func fileOne(f finding, open []issue, footer string) error {
	for _, i := range open {
		if i.Title != f.title {
			continue
		}
		if i.tells(f.text) {
			fmt.Printf("issue %d has it: %s\n", i.Number, f.title)
			return nil
		}
		_, err := gh(f.text+footer, "issue", "comment", strconv.Itoa(i.Number), "--body-file", "-")
		if err == nil {
			fmt.Printf("issue %d has a comment: %s\n", i.Number, f.title)
		}
		return err
	}
	out, err := gh(f.text+footer, "issue", "create", "--title", f.title, "--label", label, "--body-file", "-")
	if err == nil {
		fmt.Printf("filed %s: %s\n", bytes.TrimSpace(out), f.title)
	}
	return err
}

// gh runs the command gh with the input, and returns what it printed.
func gh(input string, args ...string) ([]byte, error) {
	var said bytes.Buffer
	command := exec.Command("gh", args...)
	command.Stdin, command.Stderr = strings.NewReader(input), &said
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("gh %s: %w: %s", strings.Join(args[:2], " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

// footer says which run found it: a seed repeats exactly on the same commit, with the same Go.
func footer() string {
	text := fmt.Sprintf("\n\nFound at %s with %s", cmp.Or(os.Getenv("GITHUB_SHA"), "an unknown commit"), runtime.Version())
	if id := os.Getenv("GITHUB_RUN_ID"); id != "" {
		text += fmt.Sprintf(", by %s/%s/actions/runs/%s", os.Getenv("GITHUB_SERVER_URL"), os.Getenv("GITHUB_REPOSITORY"), id)
	}
	return text + ".\n"
}
