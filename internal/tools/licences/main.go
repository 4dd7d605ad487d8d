// Command licences lists what the modules of this repository are built from, with the licences, and refuses a licence that
// would bind their users.
//
//	licences [-check] -o FILE MODULE ...
//	licences -sbom BINARY -of FILE -o FILE [-version VERSION]
//
// The first form writes the list of what the modules in these directories import, on every system that the command is
// released for, with the texts to hand on. With -check it compares the list with FILE, and writes nothing. The second form
// writes what a binary was built from, as a CycloneDX document. Its licences are those of the list in FILE.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("licences", flag.ContinueOnError)
	check := flags.Bool("check", false, "compare with the file, and write nothing")
	out := flags.String("o", "", "the `file` to write")
	binary := flags.String("sbom", "", "the `binary` to describe")
	list := flags.String("of", "", "with -sbom, the `file` that lists the licences")
	version := flags.String("version", "", "with -sbom, the release's `version`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var text []byte
	var err error
	if *binary != "" {
		text, err = bill(*binary, *list, *version)
	} else {
		text, err = report(".", flags.Args())
	}
	switch {
	case err != nil:
		return err
	case *out == "":
		return errors.New("-o is missing")
	case !*check:
		return os.WriteFile(*out, text, 0o644)
	}
	have, err := os.ReadFile(*out)
	if err == nil && !bytes.Equal(have, text) {
		err = fmt.Errorf("%s does not list what the modules import: make licences writes it anew", *out)
	}
	return err
}

// report returns the list for the modules in these directories below dir.
func report(dir string, modules []string) ([]byte, error) {
	all, err := dependencies(dir, modules)
	if err != nil {
		return nil, err
	}
	var refused []error
	for _, m := range all {
		refused = append(refused, m.judge())
	}
	return page(all), errors.Join(refused...)
}
