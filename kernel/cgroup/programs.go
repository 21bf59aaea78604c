// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// AttachProgram attaches a program to the cgroup at path and its descendants, in addition to the
// programs of others.
func AttachProgram(path string, hook ebpf.AttachType, program *ebpf.Program) (link.Link, error) {
	attached, err := link.AttachCgroup(link.CgroupOptions{Path: path, Attach: hook, Program: program})
	if errors.Is(err, unix.EPERM) {
		if blocked := Attachable(path, hook); blocked != nil {
			return nil, blocked
		}
	}
	return attached, err
}

// Attachable returns an error that names the program of another owner, if that program is attached
// exclusively and so keeps other programs of these hooks from the cgroup at path. It ignores hooks
// and cgroups that it cannot query.
func Attachable(path string, hooks ...ebpf.AttachType) error {
	for _, hook := range hooks {
		for at, own := filepath.Clean(path), true; ; at, own = filepath.Dir(at), false {
			attached, err := query(at, hook)
			if err != nil {
				break // above the root of the hierarchy, or not permitted
			}
			// As in hierarchy_allows_attach of the kernel: the nearest cgroup with a program
			// decides. Above path, a program that may be overridden lets others attach.
			if len(attached.programs) > 0 {
				if attached.flags&unix.BPF_F_ALLOW_MULTI != 0 || !own && attached.flags&unix.BPF_F_ALLOW_OVERRIDE != 0 {
					break
				}
				return attached.exclusive(at, hook)
			}
		}
	}
	return nil
}

// attachment is the set of programs that a cgroup itself has at a hook.
type attachment struct {
	flags    uint32
	programs []ebpf.ProgramID
}

// hookNames are the names of hooks in bpftool.
var hookNames = map[ebpf.AttachType]string{
	ebpf.AttachCGroupInetIngress: "cgroup_inet_ingress", ebpf.AttachCGroupInetEgress: "cgroup_inet_egress",
	ebpf.AttachCGroupSockOps: "cgroup_sock_ops", ebpf.AttachCGroupSetsockopt: "cgroup_setsockopt",
}

func (a attachment) exclusive(path string, hook ebpf.AttachType) error {
	id, name := a.programs[0], hookNames[hook]
	if name == "" {
		name = hook.String()
	}
	called := ""
	if program, err := ebpf.NewProgramFromID(id); err == nil {
		if info, err := program.Info(); err == nil && info.Name != "" {
			called = " (" + info.Name + ")"
		}
		_ = program.Close()
	}
	return fault.New(fault.Failed,
		fmt.Sprintf("detach it: bpftool cgroup detach %s %s id %d; or have its owner attach it with BPF_F_ALLOW_MULTI (bpftool: multi)", path, name, id),
		"program %d%s of another owner is attached exclusively to cgroup %s at %s: the kernel attaches no other program there or below", id, called, path, name)
}

// query returns the programs that are attached to the cgroup at path itself.
func query(path string, hook ebpf.AttachType) (attachment, error) {
	directory, err := os.Open(path)
	if err != nil {
		return attachment{}, err
	}
	defer func() { _ = directory.Close() }()
	var ids [64]ebpf.ProgramID
	var pinned runtime.Pinner
	pinned.Pin(&ids)
	defer pinned.Unpin()
	// The part of union bpf_attr for BPF_PROG_QUERY.
	attr := struct {
		target, hook, queryFlags, attachFlags uint32
		ids                                   uint64
		count, _                              uint32
		_                                     [4]uint64
	}{target: uint32(directory.Fd()), hook: uint32(hook), ids: uint64(uintptr(unsafe.Pointer(&ids[0]))), count: uint32(len(ids))}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_QUERY, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 && errno != unix.ENOSPC { // ENOSPC: more programs than ids holds
		return attachment{}, errno
	}
	return attachment{attr.attachFlags, ids[:min(int(attr.count), len(ids))]}, nil
}
