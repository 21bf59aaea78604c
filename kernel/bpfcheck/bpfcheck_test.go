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

// root is the folder of the module, above this one.
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
		if strings.HasSuffix(entry.Name(), "_bpfel.o") {
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

// check loads one program of an object with the maps it uses, and attaches it. The members of a
// struct_ops belong together: with one of them all are loaded, and they are not attached, since
// their names would be seen by the whole host.
func check(t *testing.T, object *ebpf.CollectionSpec, name string) {
	kind := object.Programs[name].Type
	if err := probe.ProgramType(kind); kind != ebpf.UnspecifiedProgram && err != nil {
		testutil.Need(t, feature(kind), err)
	}
	if kind == ebpf.StructOps {
		testutil.Need(t, "struct_ops-links", probe.CongestionOps()) // links to them, which came later than the type
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
		if strings.Contains(err.Error(), "JIT is required") { // for functions of the kernel's
			testutil.Need(t, "jit", err)
		}
		var refusal *ebpf.VerifierError
		if errors.As(err, &refusal) {
			last := refusal.Log[max(0, len(refusal.Log)-20):]
			t.Fatalf("%v\n%s", err, strings.Join(last, "\n"))
		}
		t.Fatal(err)
	}
	defer loaded.Close()
	if err := attach(t, loaded.Programs[name], spec.Programs[name]); err != nil {
		t.Errorf("attach: %v", err)
	}
}

// openSettings keeps the verifier from knowing the settings of programs, which are constants once
// they are loaded: with those of the object, zeros for the most part, most of the code is dead and
// is not looked at. Some have to be known, and are what makes the most code live: those that stand
// for what the kernel has, and those by which a lock is taken and given back. An array's bound is
// that of the object, which has as few elements as can be.
func openSettings(t *testing.T, spec *ebpf.CollectionSpec) {
	t.Helper()
	known := false
	for _, setting := range []struct {
		program, name string
		lacking       error // what keeps the kernel from it
		bound         int   // octets in front of a bound, of an array of two
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
			copy(value[setting.bound:], []byte{1, 0, 0, 0}) // little-endian, as the object is
		}
		if err := variable.Set(value); err != nil {
			t.Fatal(err)
		}
	}
	if constants := spec.Maps[".rodata"]; constants != nil && !known {
		constants.Flags &^= unix.BPF_F_RDONLY_PROG // so that it is not frozen either
	}
}

// memberOf is where a member of a variable begins, in octets; 0 where the object has no such
// variable.
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
// zeros there under user-mode Linux. Where they cannot be read, nil leaves the search to the
// library.
func kernelTypes() *btf.Spec {
	types, err := btf.LoadSpec("/sys/kernel/btf/vmlinux")
	if err != nil {
		return nil
	}
	return types
}

// feature is the name that testutil's table of absent features has for a program type.
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

// attach puts a program where its type belongs and takes it away again. Types without a place here
// are loaded only.
func attach(t *testing.T, program *ebpf.Program, spec *ebpf.ProgramSpec) error {
	switch {
	case spec.AttachType == ebpf.AttachXDPDevMap || spec.AttachType == ebpf.AttachXDPCPUMap:
		return nil // goes into a map, not on a device
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

// onVeth attaches to a veth device in a namespace of its own, whose other end is there too.
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

// onCgroup attaches to a new control group that nobody is in.
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
