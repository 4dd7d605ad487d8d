// Command findings reads the log of a run that failed, and prints what the run found:
//
//	go run ./internal/tools/findings [-file] seeds|vulnerabilities LOG
//
// The log of seeds is that of make sim, the log of vulnerabilities that of make vuln. With -file each finding becomes an issue on
// GitHub, by the command gh. An open issue with the finding's title gets a comment instead, and none if it has the same text.
//
// The command fails if the log has no finding: then the run itself has failed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	file := flag.Bool("file", false, "file the findings as issues, by gh")
	flag.Parse()
	if err := run(flag.Args(), *file); err != nil {
		fmt.Fprintln(os.Stderr, "findings:", err)
		os.Exit(1)
	}
}

func run(args []string, file bool) error {
	if len(args) != 2 {
		return errors.New("usage: findings [-file] seeds|vulnerabilities LOG")
	}
	read := map[string]func(log string) []finding{"seeds": seeds, "vulnerabilities": vulnerabilities}[args[0]]
	if read == nil {
		return fmt.Errorf("no log is called %q, only seeds and vulnerabilities", args[0])
	}
	log, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	found := merged(read(string(log)))
	if len(found) == 0 {
		return fmt.Errorf("%s has no finding: the run itself has failed", args[1])
	}
	if file {
		return fileAll(found, footer())
	}
	for _, f := range found {
		fmt.Printf("%s\n\n%s\n\n", f.title, f.text)
	}
	return nil
}
