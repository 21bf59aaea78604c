// SPDX-License-Identifier: Apache-2.0

package police_test

import (
	"fmt"
	"log"
	"os"

	"weir/internal/direction"
	"weir/kernel/cgroup"
	"weir/modules/limit/police"
)

// Thresholds scale with the rate.
func ExampleLimit_WithDefaults() {
	for _, l := range []police.Limit{{Rate: 1e9}, {Rate: 1e6}} {
		l = l.WithDefaults()
		fmt.Printf("%s: burst %s, mark %s, drop %s\n", l.Rate, l.Burst, l.Mark, l.Drop)
	}
	// Output:
	// 1 Gbit/s: burst 1.2ms, mark 2ms, drop 10ms
	// 1 Mbit/s: burst 48.448ms, mark 96.896ms, drop 484.48ms
}

// The limit of 100 Mbit/s on a cgroup lasts as long as the process.
func ExampleDataPlane() {
	group, err := cgroup.Create("", "backup")
	if err != nil {
		log.Fatal(err)
	}
	id, err := group.ID()
	if err != nil {
		log.Fatal(err)
	}
	plane, err := police.Load(1)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = plane.Close() }()
	if err := plane.Set(0, direction.Egress, police.Limit{Rate: 100e6}); err != nil {
		log.Fatal(err)
	}
	if err := plane.AssignCgroup(id, 0); err != nil {
		log.Fatal(err)
	}
	if err := plane.Attach(group.Path); err != nil {
		log.Fatal(err)
	}
	if err := group.Add(os.Getpid()); err != nil { // sockets that are opened from here on are limited
		log.Fatal(err)
	}
	counters, err := plane.Counters(0, direction.Egress)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(counters.Bytes, "octets admitted,", counters.Marked, "packets marked")
}
