package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Word is a seed with its class and topology in one word, "7:net:quorum-of-3", which nobody copies in part: what is left out
// of it is the seed's own.
func Word(seed uint64, class, topology string) string {
	word := strconv.FormatUint(seed, 10)
	if class != "" || topology != "" {
		word += ":" + class
	}
	if topology != "" {
		word += ":" + strings.ReplaceAll(topology, " ", "-")
	}
	return word
}

// ParseWord takes a word apart. A class may be the name of a scene.
func ParseWord(word string) (seed uint64, class, topology string, err error) {
	parts := strings.SplitN(word, ":", 3)
	if seed, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return 0, "", "", fmt.Errorf("a seed is a number, or %s: %w", Word(7, "net", quorumOf3.Name), err)
	}
	if len(parts) > 1 {
		class = parts[1]
	}
	if len(parts) > 2 {
		topology = strings.ReplaceAll(parts[2], "-", " ")
	}
	for _, t := range topologies {
		if t.Name == topology {
			return seed, class, topology, nil
		}
	}
	if topology != "" {
		err = fmt.Errorf("no topology is called %q", topology)
	}
	return seed, class, topology, err
}

// Again is how a run is repeated, and what of that may be left out.
func (r *Result) Again() string {
	o, class, topology := r.options, r.Plan.Class, r.Plan.Topology.Name
	if r.Plan.Scene != "" {
		class, topology = r.Plan.Scene, o.Topology // else its own
	}
	text := "again: make sim SEED=" + Word(r.Plan.Seed, class, topology)
	if o.Redis != "" {
		text += " REDIS=" + o.Redis
	}
	if slices.Contains(r.Spare, "ROUNDS") && len(o.Rounds) > 12 {
		o.Rounds = nil
	}
	small := list("FAULTS", o.Only, ";") + list("ROUNDS", o.Rounds, " ") + list("NAMES", o.Names, " ")
	if small == "" {
		return text
	}
	text += small + "\n       SEED alone repeats the whole run, which fails alike"
	if len(r.Spare) > 0 {
		text += "; this one fails without " + strings.Join(r.Spare, ", or without ") + " too"
	}
	return text + "."
}

func list(name string, entries []string, between string) string {
	if entries == nil {
		return ""
	}
	if len(entries) == 0 {
		return " " + name + "=none"
	}
	return fmt.Sprintf(" %s='%s'", name, strings.Join(entries, between))
}

// ParseList reads such a list: nil where it is not given.
func ParseList(text, between string) []string {
	switch text {
	case "":
		return nil
	case "none":
		return []string{}
	}
	return strings.Split(text, between)
}

// sceneOf is the one of that name, nil for none.
func sceneOf(name string) *Scene {
	for i := range Scenes {
		if Scenes[i].Name == name {
			return &Scenes[i]
		}
	}
	return nil
}
