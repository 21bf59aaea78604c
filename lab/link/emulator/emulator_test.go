package emulator_test

import (
	"testing"

	"weir/internal/child"
	"weir/lab/link/conformance"
	"weir/lab/link/emulator"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{emulator.PartName: emulator.Part})
	m.Run()
}

func TestConformance(t *testing.T) { conformance.Run(t, emulator.New(emulator.Options{})) }
