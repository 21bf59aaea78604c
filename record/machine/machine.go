// SPDX-License-Identifier: Apache-2.0

// Package machine describes the host for manifests and weir doctor.
//
// It reads files that need no privilege, and leaves unreadable values empty.
package machine

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"weir/record"
)

// Describe returns the description of the host. Cores counts those available to this process.
func Describe() record.Machine {
	m := describe("/")
	m.Clock = clock(os.Getenv("TEST_CLOCK"))
	return m
}

// clock parses the description of a guest's clock from testkernel/run; the guest itself cannot
// determine it.
func clock(said string) string {
	if said == record.InstructionClock {
		return record.InstructionClock
	}
	return ""
}

// describe reads below a root, which tests replace. The kernel and the cores are always the running
// ones.
func describe(root string) record.Machine {
	read := func(path string) string {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return ""
		}
		return string(content)
	}
	cpuinfo := read("proc/cpuinfo")
	return record.Machine{
		Kernel:  strings.TrimSpace("Linux " + release() + " " + runtime.GOARCH),
		CPU:     cpuModel(cpuinfo),
		Cores:   runtime.NumCPU(),
		Memory:  memory(read("proc/meminfo")),
		Distro:  distribution(read("etc/os-release")),
		Virtual: virtualization(cpuinfo, read("sys/hypervisor/type"), read("sys/class/dmi/id/sys_vendor"), read("proc/1/environ")),
	}
}

// release returns the version of the running kernel, as uname -r prints it.
func release() string {
	content, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// cpuModel returns the CPU model; its field in cpuinfo depends on the architecture, and ARM often
// has none.
func cpuModel(cpuinfo string) string {
	for _, key := range []string{"model name", "Processor", "cpu model", "Model", "uarch"} {
		if value := field(cpuinfo, key); value != "" {
			return value
		}
	}
	return runtime.GOARCH
}

// memory returns the memory size in bytes.
func memory(meminfo string) int64 {
	text, _ := strings.CutSuffix(field(meminfo, "MemTotal"), " kB")
	kib, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0
	}
	return kib * 1024
}

// distribution returns the display name of os-release(5).
func distribution(release string) string {
	for line := range strings.Lines(release) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); found {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// virtualization names the hypervisor; empty means none was detected, which does not prove bare
// metal.
func virtualization(cpuinfo, hypervisor, vendor, environment string) string {
	switch {
	case strings.Contains(cpuinfo, "User Mode Linux"):
		return "user-mode Linux"
	case strings.Contains(cpuinfo, "QEMU TCG"):
		return "QEMU emulation"
	}
	kind := strings.TrimSpace(hypervisor)
	if kind == "" && strings.Contains(" "+field(cpuinfo, "flags")+" ", " hypervisor ") {
		kind = "virtual machine"
		if vendor = strings.TrimSpace(vendor); vendor != "" {
			kind += " (" + vendor + ")"
		}
	}
	for _, variable := range strings.Split(environment, "\x00") {
		if name, found := strings.CutPrefix(variable, "container="); found && name != "" {
			return strings.TrimPrefix(kind+", container ("+name+")", ", ")
		}
	}
	return kind
}

// field returns the first value of a key in the "key : value" form of /proc.
func field(text, key string) string {
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
