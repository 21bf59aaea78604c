// SPDX-License-Identifier: Apache-2.0

// Package rules holds the tree to the direction of dependencies that ARCHITECTURE.md draws, and to
// small files.
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

// pkg is what `go list -json` says of a package.
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

// room is the top folder of a package below the module: "lab", "internal/kernel", "cmd".
func room(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "weir/"), "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return "internal/" + parts[1]
	}
	return parts[0]
}

// mayImport says for each room which other rooms it may import; internal helpers that know no room
// are open to all.
var mayImport = map[string][]string{
	"cmd":     {"cc", "class", "ioam", "lab", "limit", "offload", "policy", "tester", "record", "internal/kernel", "internal/daemon", "internal/doctor", "internal/machine", "internal/prove", "internal/avail", "internal/room", "internal/rooms"},
	"lab":     {"limit", "cc", "class", "ioam", "offload", "tester", "record", "internal/kernel", "internal/machine"},
	"tester":  {"record", "internal/kernel", "internal/machine"},
	"limit":   spine("internal/kernel", "record"),
	"cc":      spine("internal/kernel"),
	"class":   spine("internal/kernel"),
	"ioam":    spine("internal/kernel", "record"),
	"offload": spine("internal/kernel"),
	"policy":  {},
	"record":  {},
	"bench":   {"lab", "limit", "policy", "tester", "record", "internal/daemon", "internal/kernel", "internal/machine", "internal/rooms"},
	"e2e":     {"record", "internal/kernel"},

	"packaging":           {"internal/rooms"},
	"internal/room":       {"policy", "internal/match", "internal/selector", "internal/kernel"},
	"internal/rooms":      {"limit", "cc", "class", "ioam", "offload", "policy", "internal/room", "internal/selector"},
	"internal/selector":   {"policy", "internal/match", "internal/kernel", "internal/systemd"},
	"internal/daemon":     {"policy", "record", "internal/match", "internal/room", "internal/selector", "internal/kernel", "internal/systemd"},
	"internal/prove":      {"policy", "lab", "record", "internal/daemon", "internal/match", "internal/room", "internal/selector", "internal/kernel"},
	"internal/avail":      {"internal/prove", "record"},
	"internal/kernel":     {},
	"internal/match":      {"internal/kernel"},
	"internal/systemd":    {},
	"internal/scoreboard": {"record"},
	"internal/machine":    {"record", "internal/kernel"},
	"internal/doctor":     {"record", "internal/kernel", "internal/machine", "internal/room"},
	"internal/formats":    {"policy", "lab", "tester", "record", "internal/doctor", "internal/prove", "internal/room", "internal/rooms"},
	"internal/testutil":   {"internal/kernel"},
}

// spine is what a room that plugs into policies may import: the contract, and what else it needs.
func spine(beside ...string) []string {
	return append([]string{"policy", "internal/room", "internal/match", "internal/selector"}, beside...)
}

// helpers may be imported by every room and import no room themselves.
var helpers = []string{
	"internal/units", "internal/fault", "internal/child", "internal/version", "internal/texttable", "internal/yamlfile",
	"internal/nearest", "internal/infile", "internal/schematest", "internal/wait", "internal/direction", "internal/listen",
}

func TestDependenciesPointDown(t *testing.T) {
	for _, p := range packages(t) {
		from := room(p.ImportPath)
		allowed, isRoom := mayImport[from]
		if !isRoom && !slices.Contains(helpers, from) && from != "internal/rules" {
			t.Errorf("%s: the room %s is not in the rules: add it with what it may import", p.ImportPath, from)
			continue
		}
		for _, path := range p.Imports {
			to := room(path)
			if to == "internal/testutil" && (strings.HasSuffix(p.ImportPath, "/conformance") || strings.HasSuffix(p.ImportPath, "/labtest")) {
				continue // what the tests of several packages run, or build on
			}
			if !strings.HasPrefix(path, "weir/") || to == from || slices.Contains(helpers, to) || slices.Contains(allowed, to) {
				continue
			}
			t.Errorf("%s imports %s: the room %s may import only %v", p.ImportPath, path, from, allowed)
		}
	}
}

// pure lists packages that make no system call beyond reading and writing files, so that they can
// be tested anywhere.
var pure = []string{
	"weir/record", "weir/record/hist", "weir/record/stats", "weir/lab/scenario", "weir/lab/expect", "weir/lab/predict", "weir/lab/link/model",
	"weir/tester", "weir/tester/frame", "weir/tester/spec", "weir/internal/units", "weir/internal/fault", "weir/policy", "weir/ioam/codec", "weir/ioam/collect", "weir/ioam/evidence",
	"weir/offload/state", "weir/offload/plan", "weir/offload/simulate",
}

// impure are imports that a pure package must not reach.
var impure = []string{"golang.org/x/sys/unix", "syscall", "os/exec", "github.com/cilium/ebpf", "github.com/vishvananda/netlink"}

// The spine knows no room: a test of its that imports one would be the first step.
func TestTheSpineKnowsNoRoom(t *testing.T) {
	all := packages(t)
	var rooms []string // those that internal/rooms lists
	for _, p := range all {
		if p.ImportPath == "weir/internal/rooms" {
			rooms = slices.DeleteFunc(slices.Clone(p.Imports), func(path string) bool {
				return !strings.HasPrefix(path, "weir/") || path == "weir/policy" || strings.HasPrefix(path, "weir/internal/")
			})
		}
	}
	if len(rooms) < 2 {
		t.Fatalf("internal/rooms lists %v", rooms)
	}
	for _, p := range all {
		if from := room(p.ImportPath); from != "policy" && (!strings.HasPrefix(from, "internal/") || from == "internal/rooms" || from == "internal/testutil") {
			continue
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if slices.Contains(rooms, path) {
				t.Errorf("%s imports %s: only internal/rooms lists the rooms", p.ImportPath, path)
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

// kernelLibraries are what only internal/kernel may use.
var kernelLibraries = []string{"github.com/vishvananda/netlink", "github.com/safchain/ethtool", "github.com/mdlayher/netlink"}

func TestOnlyInternalKernelSpeaksNetlink(t *testing.T) {
	for _, p := range packages(t) {
		if room(p.ImportPath) == "internal/kernel" {
			continue
		}
		for _, path := range p.Imports {
			for _, library := range kernelLibraries {
				if path == library || strings.HasPrefix(path, library+"/") {
					t.Errorf("%s imports %s: only internal/kernel may", p.ImportPath, path)
				}
			}
		}
	}
}

// attachers may attach programs to devices: the owner of devices, and what tries out whether a
// kernel does.
var attachers = []string{"weir/internal/kernel/device", "weir/internal/kernel/probe"}

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
				t.Errorf("%s/%s attaches a program: use internal/kernel/device", p.ImportPath, name)
			}
		}
	}
}

const maxLines = 400

func TestFilesStaySmall(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join(p.Dir, name)
			if strings.HasSuffix(name, "_bpfel.go") {
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
