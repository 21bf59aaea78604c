// SPDX-License-Identifier: Apache-2.0

package bpfcheck

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// root returns the folder of the module.
func root(t *testing.T) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		above := filepath.Dir(folder)
		if above == folder {
			t.Fatal("no go.mod above the test")
		}
		folder = above
	}
}

// objects lists the compiled BPF objects of the tree, relative to its root.
func objects(t *testing.T, root string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if name := entry.Name(); strings.Contains(name, "_bpfel") && strings.HasSuffix(name, ".o") {
			relative, err := filepath.Rel(root, path)
			list = append(list, relative)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestEveryObjectLoadsAndAttaches(t *testing.T) {
	testutil.Snapshot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	folder := root(t)
	list := objects(t, folder)
	if len(list) == 0 {
		t.Fatal("no BPF object in the tree")
	}
	for _, object := range list {
		t.Run(object, func(t *testing.T) {
			spec, err := ebpf.LoadCollectionSpec(filepath.Join(folder, object))
			if err != nil {
				t.Fatal(err)
			}
			for name := range spec.Programs {
				t.Run(name, func(t *testing.T) { check(t, spec, name) })
			}
		})
	}
}

// check loads one program of an object with its maps, and attaches it. The members of a struct_ops
// depend on each other: with one of them all are loaded, and they are not attached, since their
// names would be visible on the whole host.
func check(t *testing.T, object *ebpf.CollectionSpec, name string) {
	kind := object.Programs[name].Type
	if err := probe.ProgramType(kind); kind != ebpf.UnspecifiedProgram && err != nil {
		testutil.Need(t, feature(kind), err)
	}
	if kind == ebpf.StructOps {
		testutil.Need(t, "struct_ops-links", probe.CongestionOps()) // links to them, which are newer than the type
	}
	spec := object.Copy()
	for other, program := range spec.Programs {
		if other != name && (kind != ebpf.StructOps || program.Type != ebpf.StructOps) {
			delete(spec.Programs, other)
		}
	}
	for mapName, m := range spec.Maps {
		m.Pinning = ebpf.PinNone
		if m.Type == ebpf.StructOpsMap && kind != ebpf.StructOps {
			delete(spec.Maps, mapName)
		}
	}
	openSettings(t, spec)
	loaded, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{KernelTypes: kernelTypes()}})
	if err != nil {
		// For functions of the kernel, and callbacks of timers.
		if strings.Contains(err.Error(), "JIT is required") || strings.Contains(err.Error(), "not allowed in non-JITed programs") {
			testutil.Need(t, "jit", err)
		}
		var rejection *ebpf.VerifierError
		if errors.As(err, &rejection) {
			last := rejection.Log[max(0, len(rejection.Log)-20):]
			t.Fatalf("%v\n%s", err, strings.Join(last, "\n"))
		}
		t.Fatal(err)
	}
	defer loaded.Close()
	if err := attach(t, loaded.Programs[name], spec.Programs[name]); err != nil {
		t.Errorf("attach: %v", err)
	}
}

// openSettings hides the settings of programs from the verifier. Settings are constants once the
// programs are loaded: with the object's values, mostly zeros, most of the code is dead and would
// not be verified. Some settings must be known: the kernel's features, and those that select how a
// lock is taken and released. They have the values with the most live code. An array's bound is
// that of the object, which has as few elements as possible.
func openSettings(t *testing.T, spec *ebpf.CollectionSpec) {
	t.Helper()
	known := false
	for _, setting := range []struct {
		program, name string
		lacking       error // the reason if the kernel cannot use it
		bound         int   // offset of a bound, of an array of two
	}{
		{"", "scope_netns", features.HaveProgramHelper(ebpf.CGroupSKB, asm.FnGetNetnsCookie), 0},
		{"", "delay_netns", features.HaveProgramHelper(ebpf.CGroupSKB, asm.FnGetNetnsCookie), 0},
		{"", "scope_reads", features.HaveProgramHelper(ebpf.CGroupSKB, asm.FnProbeReadKernel), 0},
		{"", "ioam_reads", features.HaveProgramHelper(ebpf.SchedCLS, asm.FnProbeReadKernel), 0},
		{"analyze", "settings", nil, 0},
		{"edt_decide", "edt", nil, memberOf(t, spec, "edt", "ring_mask")},
	} {
		variable := spec.Variables[setting.name]
		if variable == nil || setting.program != "" && spec.Programs[setting.program] == nil {
			continue
		}
		known = true
		if setting.lacking != nil {
			continue
		}
		value := bytes.Repeat([]byte{1}, int(variable.Size()))
		if setting.bound > 0 {
			copy(value[setting.bound:], []byte{1, 0, 0, 0}) // little-endian, like the object
		}
		if err := variable.Set(value); err != nil {
			t.Fatal(err)
		}
	}
	if constants := spec.Maps[".rodata"]; constants != nil && !known {
		constants.Flags &^= unix.BPF_F_RDONLY_PROG // do not freeze it either
	}
}

// memberOf returns the offset of a variable's member; 0 if the object has no such variable.
func memberOf(t *testing.T, spec *ebpf.CollectionSpec, variable, name string) int {
	t.Helper()
	if spec.Variables[variable] == nil {
		return 0
	}
	kind, isStruct := btf.UnderlyingType(spec.Variables[variable].Type.Type).(*btf.Struct)
	if !isStruct {
		t.Fatalf("%s is no structure", variable)
	}
	for _, m := range kind.Members {
		if m.Name == name {
			return int(m.Offset.Bytes())
		}
	}
	t.Fatalf("%s has no %s", variable, name)
	return 0
}

// kernelTypes reads the kernel's types as a file. The library maps them into memory, and finds only
// zeros there under user-mode Linux. If they are not readable, nil leaves the search to the
// library.
func kernelTypes() *btf.Spec {
	types, err := btf.LoadSpec("/sys/kernel/btf/vmlinux")
	if err != nil {
		return nil
	}
	return types
}

// feature returns the name of a program type in testutil's table of absent features.
func feature(kind ebpf.ProgramType) string {
	switch kind {
	case ebpf.StructOps:
		return "struct_ops"
	case ebpf.Tracing:
		return "tracing"
	case ebpf.RawTracepoint:
		return "raw_tracepoint"
	}
	return strings.ToLower(kind.String())
}

// attach attaches a program at the hook of its type and detaches it. Types without a hook here are
// only loaded.
func attach(t *testing.T, program *ebpf.Program, spec *ebpf.ProgramSpec) error {
	switch {
	case spec.AttachType == ebpf.AttachXDPDevMap || spec.AttachType == ebpf.AttachXDPCPUMap:
		return nil // is stored in a map, not attached to a device
	case program.Type() == ebpf.XDP:
		return onVeth(func(dev rtnl.Device) (io.Closer, error) {
			return link.AttachXDP(link.XDPOptions{Program: program, Interface: dev.Index, Flags: link.XDPDriverMode})
		})
	case program.Type() == ebpf.SchedCLS:
		return onVeth(func(dev rtnl.Device) (io.Closer, error) {
			return device.Attach(nil, dev.Name, device.Ingress, 1, "check", program, device.Options{})
		})
	case slices.Contains([]ebpf.ProgramType{ebpf.CGroupSKB, ebpf.SockOps, ebpf.CGroupSockAddr, ebpf.CGroupSock, ebpf.CGroupSockopt}, program.Type()):
		return onCgroup(t, program, spec.AttachType)
	}
	return nil
}

// onVeth attaches to one end of a veth pair in a new namespace.
func onVeth(attach func(rtnl.Device) (io.Closer, error)) error {
	return netns.Fresh(func() error {
		conn, err := rtnl.Open(nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.AddVeth("a", nil, "b", 0); err != nil {
			return err
		}
		dev, err := conn.Device("a")
		if err != nil {
			return err
		}
		attached, err := attach(dev)
		if err != nil {
			return err
		}
		return attached.Close()
	})
}

// onCgroup attaches to a new, empty cgroup.
func onCgroup(t *testing.T, program *ebpf.Program, kind ebpf.AttachType) error {
	groups, err := probe.CgroupMounts()
	if err == nil && groups.Path == "" {
		err = unix.ENOENT
	}
	testutil.Need(t, "cgroup v2", err)
	folder, err := os.MkdirTemp(groups.Path, fmt.Sprintf("weirtest-%d-", os.Getpid()))
	if err != nil {
		return err
	}
	attached, err := link.AttachCgroup(link.CgroupOptions{Path: folder, Attach: kind, Program: program})
	if err == nil {
		err = attached.Close()
	}
	return errors.Join(err, os.Remove(folder))
}
