// SPDX-License-Identifier: Apache-2.0

// Package rules checks the tree: imports follow the arrows of ARCHITECTURE.md, and files are small.
package rules

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pkg is the output of `go list -json` for a package.
type pkg struct {
	ImportPath   string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	list := exec.Command("go", "list", "-json", "weir/...")
	list.Dir = filepath.Join("..", "..")
	output, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p pkg
		if err := decoder.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// part returns the part of a package: its top folder and, below core, modules and internal, also
// the next one.
func part(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "weir/"), "/")
	if len(parts) > 1 && (parts[0] == "internal" || parts[0] == "core" || parts[0] == "modules" && parts[1] != "schemagen") {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// mayImport lists the parts that each part may import. Every part may import the helpers.
var mayImport = map[string][]string{
	"cmd":       {"core/avail", "core/cni", "core/daemon", "core/doctor", "core/engine", "core/module", "core/policy", "core/prove", "ix", "kernel", "lab", "measure", "modules", "modules/cc", "modules/class", "modules/fleet", "modules/ioam", "modules/limit", "modules/offload", "record", "tester"},
	"lab":       {"kernel", "measure", "modules/cc", "modules/class", "modules/ioam", "modules/limit", "modules/offload", "record", "tester"},
	"tester":    {"kernel", "netconf", "record"},
	"measure":   {"kernel", "record"},
	"netconf":   {},
	"ix":        {},
	"record":    {},
	"kernel":    {},
	"bench":     {},
	"docs":      {},
	"bpf":       {},
	"e2e":       {"kernel", "modules/fleet", "record"},
	"packaging": {"modules"},

	"modules":         {"core/module", "core/policy", "core/selector", "modules/cc", "modules/class", "modules/fleet", "modules/ioam", "modules/limit", "modules/offload"},
	"modules/limit":   module("kernel", "record"),
	"modules/cc":      module("kernel"),
	"modules/class":   module("kernel"),
	"modules/fleet":   module("kernel"),
	"modules/ioam":    module("kernel", "record"),
	"modules/offload": module("kernel"),

	"core/policy":   {},
	"core/module":   {"core/match", "core/policy", "core/selector", "kernel"},
	"core/selector": {"core/match", "core/policy", "internal/systemd", "kernel"},
	"core/match":    {"kernel"},
	"core/engine":   {"core/match", "core/module", "core/policy", "core/selector", "internal/systemd", "kernel", "record"},
	"core/daemon":   {"core/engine", "core/module", "core/policy", "core/selector", "internal/systemd", "kernel", "record"},
	"core/cni":      {"core/engine", "core/match", "core/policy", "kernel"},
	"core/prove":    {"core/engine", "core/match", "core/module", "core/policy", "core/selector", "kernel", "record"},
	"core/avail":    {"core/prove", "record"},
	"core/doctor":   {"core/module", "kernel", "record"},
}

// module lists the allowed imports of a policy module: the contract, and its other needs.
func module(beside ...string) []string {
	return append([]string{"core/match", "core/module", "core/policy", "core/selector"}, beside...)
}

// helpers may be imported by every part and import only each other.
var helpers = []string{
	"internal/units", "internal/fault", "internal/child", "internal/version", "internal/texttable", "internal/yamlfile",
	"internal/nearest", "internal/infile", "internal/schematest", "internal/wait", "internal/direction", "internal/dscp", "internal/listen", "internal/systemd", "internal/atomicfile",
}

func TestDependenciesPointDown(t *testing.T) {
	for _, p := range packages(t) {
		from := part(p.ImportPath)
		allowed, isPart := mayImport[from]
		if !isPart && !slices.Contains(helpers, from) && from != "internal/rules" {
			t.Errorf("%s: %s is not in the rules: add it with its allowed imports", p.ImportPath, from)
			continue
		}
		for _, path := range p.Imports {
			to := part(path)
			if to == "kernel/testutil" && (strings.HasSuffix(p.ImportPath, "/conformance") || strings.HasSuffix(p.ImportPath, "/labtest")) {
				continue // shared test tools and conformance suites
			}
			if !strings.HasPrefix(path, "weir/") || to == from || slices.Contains(helpers, to) || slices.Contains(allowed, to) {
				continue
			}
			t.Errorf("%s imports %s: %s may import only %v", p.ImportPath, path, from, allowed)
		}
	}
}

// sharedByCommands are the packages that a command group may import. Groups import no other group:
// only cmd/weir composes them.
var sharedByCommands = []string{"cli", "clitest", "complete", "parts", "view"}

func TestCommandGroupsAreIndependent(t *testing.T) {
	const groups = "weir/cmd/weir/"
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, groups) {
			continue
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if group, is := strings.CutPrefix(path, groups); is && !slices.Contains(sharedByCommands, group) {
				t.Errorf("%s imports %s: share code through cmd/weir/cli", p.ImportPath, path)
			}
		}
	}
}

// pure lists packages that make no system call beyond reading and writing files, so that they can
// be tested anywhere.
var pure = []string{
	"weir/record", "weir/record/hist", "weir/record/stats", "weir/lab/scenario", "weir/lab/expect", "weir/lab/predict", "weir/lab/link/model",
	"weir/netconf/xmltree", "weir/netconf/framing", "weir/netconf/schema", "weir/netconf/tree", "weir/netconf/access", "weir/netconf/rpcerr",
	"weir/tester", "weir/tester/frame", "weir/tester/spec", "weir/internal/units", "weir/internal/fault", "weir/core/policy", "weir/modules/ioam/codec", "weir/modules/ioam/collect", "weir/modules/ioam/evidence", "weir/modules/ioam/proof",
	"weir/modules/offload/state", "weir/modules/offload/plan", "weir/modules/offload/simulate",
	"weir/ix/birdconf", "weir/ix/choose", "weir/ix/config", "weir/ix/plan", "weir/ix/rib", "weir/ix/wire",
}

// impure are imports that a pure package must not reach.
var impure = []string{"golang.org/x/sys/unix", "syscall", "os/exec", "github.com/cilium/ebpf", "github.com/vishvananda/netlink"}

// Core imports no module. Its tests may take the list of all modules, and none by name.
func TestCoreImportsNoModule(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, "weir/core/") {
			continue
		}
		if slices.Contains(p.Imports, "weir/modules") {
			t.Errorf("%s imports weir/modules: only cmd composes modules and core", p.ImportPath)
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(path, "weir/modules/") {
				t.Errorf("%s imports %s: only weir/modules lists the modules", p.ImportPath, path)
			}
		}
	}
}

func TestPurePackagesMakeNoSystemCall(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.Contains(pure, p.ImportPath) {
			continue
		}
		for _, path := range p.Imports {
			if slices.Contains(impure, path) {
				t.Errorf("%s is pure and imports %s", p.ImportPath, path)
			}
		}
	}
}

// kernelLibraries may be imported by kernel only.
var kernelLibraries = []string{"github.com/vishvananda/netlink", "github.com/safchain/ethtool", "github.com/mdlayher/netlink"}

func TestOnlyKernelUsesNetlink(t *testing.T) {
	for _, p := range packages(t) {
		if part(p.ImportPath) == "kernel" {
			continue
		}
		for _, path := range p.Imports {
			for _, library := range kernelLibraries {
				if path == library || strings.HasPrefix(path, library+"/") {
					t.Errorf("%s imports %s: only kernel may", p.ImportPath, path)
				}
			}
		}
	}
}

// attachers may attach programs to devices: the owner of devices, and the feature probes.
var attachers = []string{"weir/kernel/device", "weir/kernel/probe"}

func TestOnlyTheOwnerOfDevicesAttachesProgramsToThem(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(attachers, p.ImportPath) {
			continue
		}
		for _, name := range p.GoFiles {
			content, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(content, []byte(".AttachTCX(")) {
				t.Errorf("%s/%s attaches a program: use kernel/device", p.ImportPath, name)
			}
		}
	}
}

const maxLines = 500

func TestFilesStaySmall(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join(p.Dir, name)
			if strings.Contains(name, "_bpfel") {
				continue
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := 0
			for scanner := bufio.NewScanner(file); scanner.Scan(); {
				lines++
			}
			_ = file.Close()
			if lines > maxLines {
				t.Errorf("%s has %d lines, more than %d: does it hold one idea?", path, lines, maxLines)
			}
		}
	}
}
