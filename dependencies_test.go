package onceward_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/links.txt anew")

const module = "github.com/onceward/onceward"

// listed is what "go list" says of one package.
type listed struct {
	ImportPath string
	Name       string
	Imports    []string
	Deps       []string
	Standard   bool
	Module     *struct{ Path string }
}

// inside is the path below the module's, and whether it is of the module.
func inside(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// packages asks once for every package of the module and all that those link.
var packages = sync.OnceValues(func() (map[string]*listed, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Name,Imports,Deps,Standard,Module", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	all := map[string]*listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = &p
	}
})

func list(t *testing.T) map[string]*listed {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// clients are the libraries that speak to a broker or a store. Each may be
// linked only where it is named here, and by programs.
var clients = map[string][]string{
	"github.com/segmentio/kafka-go":      {"brokers/kafkabroker", "cmd/onceward"},
	"github.com/twmb/franz-go":           nil,
	"github.com/nats-io/nats.go":         {"brokers/natsbroker", "dedup/natsstore", "cmd/onceward"},
	"github.com/nats-io/nats-server":     nil,
	"go.etcd.io/bbolt":                   {"dedup/boltstore", "cmd/onceward", "examples"}, // they write rows of their own
	"github.com/redis/go-redis":          {"dedup/redisstore", "cmd/onceward"},
	"github.com/jackc/pgx":               {"dedup/pgstore"},
	"github.com/prometheus":              nil,
	"go.opentelemetry.io":                nil,
	"github.com/ThreeDotsLabs/watermill": nil,
}

// layers says which packages of the module each may link, by the first line
// that matches. A trailing slash means all below. Packages of internal/ may be
// used by all, save by being on the way to one that may not.
var layers = []struct {
	from string
	to   []string
}{
	{"brokers/brokertest", []string{"brokers"}},
	{"brokers/", []string{"brokers"}},
	{"brokers", nil},
	{"dedup/storetest", []string{"dedup", "dedup/memstore", "dedup/storetest/"}},
	{"dedup/", []string{"dedup"}},
	{"dedup", nil},
	{"deadletter", []string{"brokers", "dedup"}},
	{"deadletter/", []string{"brokers", "dedup", "deadletter"}},
	{"consumer", []string{"brokers", "dedup", "deadletter"}},
	{"consumer/", []string{"brokers", "dedup", "deadletter", "consumer"}},
}

// forTests are packages that only tests use.
func forTests(p string) bool {
	return strings.HasSuffix(p, "test") || p == "internal/memnet" || strings.HasPrefix(p, "internal/lossyfs")
}

func matches(pattern, p string) bool {
	if dir, all := strings.CutSuffix(pattern, "/"); all {
		return strings.HasPrefix(p, dir+"/")
	}
	return pattern == p
}

// owner is the package that one of its own internal/ is a part of, else p.
func owner(p string) string {
	p, _, _ = strings.Cut(p, "/internal/")
	return p
}

func TestDependenciesPointOneWay(t *testing.T) {
	for _, p := range list(t) {
		from, ours := inside(p.ImportPath)
		if !ours || p.Name == "main" {
			continue
		}
		for _, layer := range layers {
			if !matches(layer.from, owner(from)) {
				continue
			}
			for _, dep := range p.Deps {
				to, ours := inside(dep)
				if ours && !strings.HasPrefix(to, "internal/") && owner(to) != owner(from) && !slices.ContainsFunc(layer.to, func(x string) bool { return matches(x, to) }) {
					t.Errorf("%s links %s, but may only %v", from, to, layer.to)
				}
			}
			break
		}
	}
}

func TestClientLibrariesStayInTheirAdapter(t *testing.T) {
	for _, p := range list(t) {
		from, ours := inside(p.ImportPath)
		if !ours || p.Name == "main" || forTests(from) {
			continue
		}
		for client, where := range clients {
			links := func(dep string) bool { return dep == client || strings.HasPrefix(dep, client+"/") }
			if slices.ContainsFunc(p.Deps, links) && !slices.Contains(where, owner(from)) {
				t.Errorf("%s links %s, which belongs into %v", from, client, where)
			}
		}
	}
}

func TestProductsLinkNothingMadeForTests(t *testing.T) {
	for _, p := range list(t) {
		from, ours := inside(p.ImportPath)
		if !ours || forTests(from) {
			continue
		}
		for _, dep := range p.Deps {
			if to, ours := inside(dep); ours && forTests(to) || dep == "testing" && p.Name != "main" {
				t.Errorf("%s links %s", from, dep)
			}
		}
	}
}

// What a program links is what a team must trust and keep up to date, so a
// change of it is a decision: testdata/links.txt shows it in review.
func TestAProgramLinksOnlyTheModulesListed(t *testing.T) {
	const golden = "testdata/links.txt"
	all := list(t)
	children := func(parent, suffix string) (found []string) {
		for p := range all {
			if dir, ours := inside(p); ours && path.Dir(dir) == parent && strings.HasSuffix(dir, suffix) {
				found = append(found, p)
			}
		}
		slices.Sort(found)
		return found
	}
	var b strings.Builder
	b.WriteString("# Modules that a program of consumer, one adapter and one store links. Written by: go test . -update\n")
	for _, adapter := range children("brokers", "broker") {
		for _, store := range children("dedup", "store") {
			linked := map[string]bool{}
			for _, part := range []string{module + "/consumer", adapter, store} {
				if all[part] == nil {
					continue
				}
				for _, dep := range all[part].Deps {
					if m := all[dep].Module; m != nil && m.Path != module {
						linked[m.Path] = true
					}
				}
			}
			fmt.Fprintf(&b, "\nconsumer + %s + %s\n", path.Base(adapter), path.Base(store))
			for _, m := range slices.Sorted(maps.Keys(linked)) {
				fmt.Fprintf(&b, "\t%s\n", m)
			}
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("linked modules changed; if that is wanted: go test . -update\n--- %s\n%s\n--- now\n%s", golden, want, b.String())
	}
}
