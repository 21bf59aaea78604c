// SPDX-License-Identifier: Apache-2.0

package session

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/ethtool"
)

// load holds the CPU counters at the start of a run: jiffies in total, stolen, and of programs in
// user space (proc(5), /proc/stat), and the user time of this process.
type load struct {
	total, stolen, user uint64
	own                 time.Duration
}

func startLoad() load {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return load{}
	}
	l := readLoad(string(text))
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err == nil {
		l.own = time.Duration(usage.Utime.Nano())
	}
	return l
}

func readLoad(stat string) (l load) {
	line, _, _ := strings.Cut(stat, "\n")
	const nice, steal, guest = 1, 7, 8 // positions in the line: user nice system idle iowait irq softirq steal guest guest_nice
	for i, field := range strings.Fields(strings.TrimPrefix(line, "cpu")) {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil || i >= guest { // guest time is part of user time
			break
		}
		l.total += n
		if i <= nice {
			l.user += n
		}
		if i == steal {
			l.stolen = n
		}
	}
	return l
}

// jiffy is the unit of /proc/stat (USER_HZ, 100 on all architectures that Weir runs on).
const jiffy = 10 * time.Millisecond

// fewJiffies are too few for a meaningful share.
const fewJiffies = 40

// others returns the share of CPU time since l that other programs spent in user space; 0 over
// too short a span.
func (l load) others() float64 {
	now := startLoad()
	if now.total < l.total+fewJiffies {
		return 0
	}
	foreign := time.Duration(now.user-l.user)*jiffy - (now.own - l.own)
	return max(float64(foreign)/float64(time.Duration(now.total-l.total)*jiffy), 0)
}

// steal returns the share of CPU time since l that the host gave to others.
func (l load) steal() float64 {
	now := startLoad()
	if now.total <= l.total {
		return 0
	}
	return float64(now.stolen-l.stolen) / float64(now.total-l.total)
}

// drops are the counters of the receiving devices for frames that never reach an XDP program.
type drops struct {
	ports  []Port
	before uint64
}

func (s *Session) startDrops() drops {
	d := drops{}
	seen := map[string]bool{}
	for _, direction := range s.config.Directions {
		if port := direction.To; port.Here() && !seen[port.String()] {
			seen[port.String()] = true
			d.ports = append(d.ports, port)
		}
	}
	d.before = d.count()
	return d
}

// count adds the receive counters of frames lost before XDP. A device without such statistics
// counts as 0.
func (d drops) count() (total uint64) {
	for _, port := range d.ports {
		stats, err := ethtool.Stats(port.Namespace, port.Device)
		if err != nil {
			continue
		}
		for name, n := range stats {
			if missed(name) {
				total += n
			}
		}
	}
	return total
}

// missed reports whether a driver's counter is one of frames dropped at reception for lack of space
// or memory.
func missed(name string) bool {
	if !strings.HasPrefix(name, "rx") || strings.Contains(name, "xdp") {
		return false
	}
	for _, word := range []string{"missed", "no_buf", "nobuf", "no_dma", "fifo", "out_of_buffer", "drops"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

func (d drops) since() uint64 {
	now := d.count()
	return now - min(d.before, now)
}
