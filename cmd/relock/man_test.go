package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// document is the text of a page.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	require.NoError(t, err)
	return string(text)
}

// pageOf returns the manual page of a command: what cobra makes of its help, and behind that the tables of docs/cli.md on
// variables and exit statuses.
func pageOf(t *testing.T, c *cobra.Command, dated time.Time) string {
	t.Helper()
	var page strings.Builder
	c.DisableAutoGenTag = true
	require.NoError(t, doc.GenMan(c, &doc.GenManHeader{Section: "1", Date: &dated, Source: "relock", Manual: "Distributed locks"}, &page))
	text, section := document(t, "cli.md"), ""
	if c.Flags().Lookup("redis") != nil {
		section += "# ENVIRONMENT\n" + paragraphs(t, text, "| flag | variable | what |", 1, 2)
	}
	section += "# EXIT STATUS\n" + paragraphs(t, text, "| status | of | what |", 0, 2)
	_, body, found := strings.Cut(string(md2man.Render([]byte("% title 1\n"+section))), "\n.SH ") // the page has a title
	require.True(t, found)
	text = strings.ReplaceAll(page.String()+".SH "+body, "[=false]", "") // a switch takes no value
	return tagged.ReplaceAllString(text, ".TP\n$1\n")
}

// tagged matches a term before what it means, which cobra puts behind a tab. A manual page has a macro for such paragraphs.
var tagged = regexp.MustCompile(`(?m)(?:^\.PP\n)?(^\\fB.*)\n\t`)

// paragraphs are the rows of a document's table: a term, and what it means.
func paragraphs(t *testing.T, text, head string, term, what int) string {
	t.Helper()
	_, table, found := strings.Cut(text, "\n"+head+"\n")
	require.True(t, found, head)
	table, _, _ = strings.Cut(table, "\n\n")
	var all strings.Builder
	for _, row := range strings.Split(table, "\n")[1:] {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if !strings.HasPrefix(row, "| |") && len(cells) < 3 {
			continue
		}
		if strings.HasPrefix(row, "| |") {
			cells = append([]string{""}, cells...)
		}
		if cells[term] != "" {
			all.WriteString("**" + strings.ReplaceAll(cells[term], "`", "") + "**\n\t" + strings.ReplaceAll(cells[what], "`", "") + "\n\n")
		}
	}
	return all.String()
}

// Every subcommand has a manual page with its flags. RELOCK_MAN names a directory to write them to, with SOURCE_DATE_EPOCH
// as their date.
func TestManPages(t *testing.T) {
	dated := time.Unix(0, 0).UTC()
	dir := t.TempDir()
	if to := os.Getenv("RELOCK_MAN"); to != "" {
		dir = to
		epoch, err := time.ParseDuration(os.Getenv("SOURCE_DATE_EPOCH") + "s")
		require.NoError(t, err)
		dated = dated.Add(epoch)
	}
	root := (&app{}).commands()
	root.InitDefaultCompletionCmd()
	root.Use += " SUBCOMMAND [flags] [ARG ...]"
	commands := append([]*cobra.Command{root}, root.Commands()...)
	written := 0
	for _, c := range commands {
		if !c.IsAvailableCommand() && c != root {
			continue
		}
		written++
		page := pageOf(t, c, dated)
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".1"), []byte(page), 0o600))
		require.Regexp(t, `(?m)^\.TH "RELOCK`, page)
		require.Contains(t, page, c.Short)
		require.Contains(t, page, "124", "the exit statuses")
		c.Flags().VisitAll(func(f *pflag.Flag) {
			require.Regexp(t, regexp.QuoteMeta(`--`+f.Name), strings.ReplaceAll(page, `\-`, "-"))
		})
		require.Equal(t, c.Flags().Lookup("redis") != nil, strings.Contains(page, "REDISCLI_AUTH\\fP"), name)
		require.NotContains(t, page, "\n\t", "a paragraph that is not tagged")
	}
	require.Equal(t, 9+1, written)
}

// docs/cli.md has each flag where it tells of its subcommand: in that one's lines of the table, in its sections, or, for the
// flags that say which Redis, in the section on that.
func TestTheDocumentHasEachFlag(t *testing.T) {
	flags := 0
	root := (&app{}).commands()
	for _, c := range append(root.Commands(), root) {
		if c.Hidden {
			continue
		}
		name, in := c.Name(), false
		if c == root {
			name = "version" // its flag does the same
		}
		var about strings.Builder
		for line := range strings.Lines(document(t, "cli.md")) {
			if strings.HasPrefix(line, "#") {
				in = strings.HasPrefix(line, "### "+name) || line == "## Which Redis\n"
			}
			if in || strings.HasPrefix(line, "| `relock "+name) {
				about.WriteString(line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				flags++
				named := regexp.MustCompile(`[^\w-]--?` + f.Name + `[^\w-]`)
				require.True(t, named.MatchString(about.String()), "docs/cli.md says nothing of -%s where it tells of %s", f.Name, c.CommandPath())
			}
		})
	}
	require.Greater(t, flags, 50)
}
