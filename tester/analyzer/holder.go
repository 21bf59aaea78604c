// SPDX-License-Identifier: Apache-2.0

package analyzer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"

	"weir/internal/fault"
)

// occupied describes the XDP program of a device. Another analyzer's program is a BPF link, which
// ends only with its process.
func occupied(device string, program uint32, err error) error {
	opened, open := ebpf.NewProgramFromID(ebpf.ProgramID(program))
	if open != nil {
		return fault.Wrap(err, fault.Failed, "find the program at the device's XDP hook: ip -details link show "+device)
	}
	defer func() { _ = opened.Close() }()
	info, open := opened.Info()
	switch {
	case open != nil || info.Name != analyzerProgAnalyze:
		return fault.Wrap(err, fault.Failed, fmt.Sprintf("end the process that attached the XDP program %d, or detach the program in the device's network namespace: ip link set %s xdp off", program, device))
	case holders(program) == "":
		return fault.Wrap(err, fault.Failed, "another tester receives on it: wait for it, or end it")
	}
	return fault.Wrap(err, fault.Failed, "another tester receives on it, process "+holders(program)+": wait for it, or end it")
}

// holders lists the processes that hold a BPF link to a program; "" if none is visible.
func holders(program uint32) string {
	want := fmt.Sprintf("prog_id:\t%d\n", program)
	files, _ := filepath.Glob("/proc/[0-9]*/fdinfo/*") // the pattern is well-formed
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "link_type:") || !strings.Contains(string(text), want) {
			continue
		}
		if pid := strings.Split(file, "/")[2]; len(all) == 0 || all[len(all)-1] != pid {
			all = append(all, pid)
		}
	}
	return strings.Join(all, " or ")
}
