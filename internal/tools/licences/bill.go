package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// The parts of CycloneDX 1.6 that a binary needs.
type (
	document struct {
		Schema       string      `json:"$schema"`
		Format       string      `json:"bomFormat"`
		Spec         string      `json:"specVersion"`
		Serial       string      `json:"serialNumber"`
		Version      int         `json:"version"`
		Metadata     metadata    `json:"metadata"`
		Components   []component `json:"components"`
		Dependencies []depends   `json:"dependencies"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Ref      string    `json:"bom-ref"`
		Type     string    `json:"type"`
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		Hashes   []hash    `json:"hashes,omitempty"`
		Licences []licence `json:"licenses"`
		PURL     string    `json:"purl"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	licence struct {
		Licence licenceID `json:"license"`
	}
	licenceID struct {
		ID string `json:"id"`
	}
	depends struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn,omitempty"`
	}
)

// bill returns the CycloneDX document of a binary.
func bill(binary, list, version string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	licences, err := listed(list)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	doc, err := describe(info, sha256.Sum256(text), licences, version)
	if err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}

// describe returns the document for what a binary says of itself. It has neither the time nor the machine, so that it is the
// same for the same binary. Modules of the binary's own repository have its version, and its licence.
func describe(info *buildinfo.BuildInfo, sum [sha256.Size]byte, licences map[string][]string, version string) (*document, error) {
	id, own := hex.EncodeToString(sum[:]), []string{"MIT"}
	repository, _, _ := strings.Cut(info.Main.Path, "/cmd/")
	program := part(info.Main.Path, cmp.Or(version, info.Main.Version), own)
	program.Type, program.Hashes = "application", []hash{{"SHA-256", id}}
	components := []component{part("std", strings.TrimPrefix(info.GoVersion, "go"), licences[standard])}
	for _, dep := range info.Deps {
		if dep.Path == repository || strings.HasPrefix(dep.Path, repository+"/") {
			components = append(components, part(dep.Path, program.Version, own))
			continue
		}
		c := part(dep.Path, dep.Version, licences[dep.Path])
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(dep.Sum, "h1:")); err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("%s has no checksum in the binary", dep.Path)
		} else {
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(raw)}}
		}
		components = append(components, c)
	}
	on, none := depends{Ref: program.Ref}, []depends(nil)
	for _, c := range components {
		if len(c.Licences) == 0 {
			return nil, fmt.Errorf("%s has no licence in the list", c.Name)
		}
		on.On, none = append(on.On, c.Ref), append(none, depends{Ref: c.Ref})
	}
	return &document{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Serial:   "urn:uuid:" + id[:8] + "-" + id[8:12] + "-8" + id[13:16] + "-8" + id[17:20] + "-" + id[20:32],
		Metadata: metadata{program}, Components: components, Dependencies: append([]depends{on}, none...),
	}, nil
}

// part returns the component of a module.
func part(path, version string, names []string) component {
	at := "pkg:golang/" + path + "@" + version
	c := component{Ref: at, Type: "library", Name: path, Version: version, PURL: at}
	for _, name := range names {
		c.Licences = append(c.Licences, licence{licenceID{name}})
	}
	return c
}
