package run

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/lab/link/emulator"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/lab/traffic/iperf"
	"weir/lab/traffic/native"
)

func TestCleanX(t *testing.T) {
	for _, file := range strings.Fields(os.Getenv("EXP")) {
		t.Setenv("WEIR_RUN_DIR", t.TempDir())
		s, err := scenario.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if r := os.Getenv("REPS"); r != "" {
			fmt.Sscan(r, &s.Repetitions)
		}
		s.Attempts = 1
		for _, p := range strings.Fields(os.Getenv("SET")) {
			a, b, _ := strings.Cut(p, "=")
			if err := s.Set(a, []string{b}); err != nil {
				t.Log(err)
			}
		}
		var g traffic.Generator = native.New()
		if os.Getenv("GEN") == "iperf3" {
			g = iperf.Generator{}
		}
		out, err := Execute(t.Context(), s, Options{Carrier: emulator.New(emulator.Options{}), Generator: g, Gate: Fidelity{}, Seed: 1, KeepGoing: true})
		if err != nil {
			fmt.Println(file, err)
		}
		for _, r := range out.Results {
			fmt.Printf("%s %s valid=%v took=%s stall=%s behind=%s p99=%s busy=%.2f\n", file, CellName(r.Cell), r.Valid, r.Took.Round(1e6), r.Judgement.Stall, r.Judgement.Behind, r.Judgement.LatenessP99, r.Judgement.Busy)
			for _, x := range r.Reasons {
				fmt.Println("    ", x)
			}
			if w := r.Judgement.Witness; w != nil {
				fmt.Printf("    pause %s settings %d frames %d drained %v\n", w.Pause, w.Settings, w.Frames, w.Drained)
				for _, l := range w.Links {
					if os.Getenv("V") != "" {
						fmt.Printf("      %+v\n", l)
					}
				}
			}
		}
	}
}
