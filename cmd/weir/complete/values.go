// SPDX-License-Identifier: Apache-2.0

package complete

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/dscp"
	"weir/ix/config"
	"weir/kernel/netns"
	"weir/lab/scenario"
	"weir/tester/rfc2544"
	"weir/tester/spec"
)

// Free completes nothing: neither values nor file names.
func Free(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, noFile
}

// files completes file names.
func files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// completeClass offers the names of classes and code points.
func completeClass(*cobra.Command, []string, string) (all []string, _ cobra.ShellCompDirective) {
	for _, name := range dscp.Names() {
		dscp, _ := dscp.ParseDSCP(name)
		all = append(all, fmt.Sprintf("%s\tDSCP %d", name, uint8(dscp)))
	}
	return all, noFile
}

// completeDSCP offers the code points of the tester.
func completeDSCP(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	all, directive := completeClass(command, args, word)
	return slices.DeleteFunc(all, func(offer string) bool {
		name, _, _ := strings.Cut(offer, "\t")
		_, err := spec.ParseDSCP(name)
		return err != nil
	}), directive
}

// completeUser offers the users of /etc/passwd, completeGroup the groups of /etc/group.
func completeUser(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return accounts("/etc/passwd"), noFile
}

func completeGroup(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return accounts("/etc/group"), noFile
}

// accounts returns the names in a file such as /etc/passwd, with their numbers.
func accounts(path string) (names []string) {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); len(fields) > 2 {
			names = append(names, fields[0]+"\t"+fields[2])
		}
	}
	return names
}

// completeProcess offers processes except kernel threads.
func completeProcess(*cobra.Command, []string, string) (ids []string, _ cobra.ShellCompDirective) {
	paths, _ := filepath.Glob("/proc/[1-9]*/cmdline")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			continue
		}
		program, _, _ := strings.Cut(string(text), "\x00")
		ids = append(ids, filepath.Base(filepath.Dir(path))+"\t"+filepath.Base(program))
	}
	return ids, noFile
}

// completeSet offers the parameters of the scenario in args, and then their values.
func completeSet(_ *cobra.Command, args []string, word string) (all []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, noFile
	}
	s, err := scenario.Load(args[0])
	if err != nil {
		return nil, noFile
	}
	parameters := s.Parameters
	if s.Fallback != nil {
		parameters = append(parameters, scenario.Parameter{Name: s.Fallback.Parameter, Values: s.Fallback.Values})
	}
	name, begun, named := strings.Cut(word, "=")
	if !named {
		for _, p := range parameters {
			all = append(all, p.Name+"=\t"+strings.Join(p.Values, ", "))
		}
		return all, noFile | cobra.ShellCompDirectiveNoSpace
	}
	before := begun[:strings.LastIndexByte(begun, ',')+1]
	for _, p := range parameters {
		for _, value := range p.Values {
			if p.Name == name && !slices.Contains(strings.Split(before, ","), value) {
				all = append(all, name+"="+before+value)
			}
		}
	}
	return all, noFile
}

// several completes the last element of a comma-separated list.
func several(values func() []string) completer {
	return func(_ *cobra.Command, _ []string, word string) (all []string, _ cobra.ShellCompDirective) {
		before := word[:strings.LastIndexByte(word, ',')+1]
		for _, value := range values() {
			if !slices.Contains(strings.Split(before, ","), value) {
				all = append(all, before+value)
			}
		}
		return all, noFile
	}
}

// onlineCPUs returns the numbers of the online CPUs.
func onlineCPUs() (all []string) {
	paths, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*")
	for _, path := range paths {
		online, err := os.ReadFile(filepath.Join(path, "online"))
		if err != nil || strings.TrimSpace(string(online)) == "1" { // cpu0 may lack the file
			all = append(all, strings.TrimPrefix(filepath.Base(path), "cpu"))
		}
	}
	return all
}

func frameSizes() (all []string) {
	for _, size := range rfc2544.StandardSizes {
		all = append(all, strconv.Itoa(size))
	}
	return all
}

// completeForwarder offers network namespaces, and then two devices of one.
func completeForwarder(_ *cobra.Command, _ []string, word string) (all []string, _ cobra.ShellCompDirective) {
	name, inside, named := strings.Cut(word, ":")
	if !named {
		namespaces, _ := netns.List("")
		for _, name := range namespaces {
			all = append(all, name+":")
		}
		return all, noFile | cobra.ShellCompDirectiveNoSpace
	}
	ns, err := netns.Open(name)
	if err != nil {
		return nil, noFile
	}
	defer func() { _ = ns.Close() }()
	in, _, second := strings.Cut(inside, ",")
	_ = ns.Do(func() error {
		for _, device := range devices("") {
			switch {
			case !second:
				all = append(all, name+":"+device+",")
			case device != in:
				all = append(all, name+":"+in+","+device)
			}
		}
		return nil
	})
	if second {
		return all, noFile
	}
	return all, noFile | cobra.ShellCompDirectiveNoSpace
}

// completeSponsor offers the sponsors and ports of the exchange file.
func completeSponsor(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, noFile
	}
	e, err := config.Load(args[0])
	if err != nil {
		return nil, noFile
	}
	for _, s := range e.Sponsors {
		names = append(names, s.Name)
		for _, p := range s.Ports {
			if len(s.Ports) > 1 {
				names = append(names, s.Name+"/"+p.Name)
			}
		}
	}
	return names, noFile
}
