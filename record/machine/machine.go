// SPDX-License-Identifier: Apache-2.0

// Package machine describes the host, for the manifests of measurements and for `weir doctor`.
//
// Everything is read from files that need no privilege; what cannot be read is left empty, never
// guessed.
package machine

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"weir/kernel/probe"
	"weir/record"
)

// Describe returns what the host is. Cores are those that this process may use.
func Describe() record.Machine {
	m := describe("/")
	m.Clock = clock(os.Getenv("TEST_CLOCK"))
	return m
}

// clock reads what testkernel/run says of a guest's clock, which nothing in the guest shows: each
// clock source counts alike.
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
	release, err := probe.Release()
	if err != nil {
		release = ""
	}
	cpuinfo := read("proc/cpuinfo")
	return record.Machine{
		Kernel:  strings.TrimSpace("Linux " + release + " " + runtime.GOARCH),
		CPU:     processor(cpuinfo),
		Cores:   runtime.NumCPU(),
		Memory:  memory(read("proc/meminfo")),
		Distro:  distribution(read("etc/os-release")),
		Virtual: virtualization(cpuinfo, read("sys/hypervisor/type"), read("sys/class/dmi/id/sys_vendor"), read("proc/1/environ")),
	}
}

// processor finds the model's name: x86 and uml have "model name", some others "Model" or
// "Processor", ARM often none.
func processor(cpuinfo string) string {
	for _, key := range []string{"model name", "Processor", "cpu model", "Model", "uarch"} {
		if value := field(cpuinfo, key); value != "" {
			return value
		}
	}
	return runtime.GOARCH
}

// memory is the size of the memory in octets.
func memory(meminfo string) int64 {
	text, _ := strings.CutSuffix(field(meminfo, "MemTotal"), " kB")
	kib, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0
	}
	return kib * 1024
}

// distribution is the name that os-release(5) means for people.
func distribution(release string) string {
	for line := range strings.Lines(release) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); found {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// virtualization names what the kernel runs on; empty means nothing was seen, which is not proof of
// bare metal.
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

// field is the first value of a key in the "key : value" form of /proc.
func field(text, key string) string {
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
