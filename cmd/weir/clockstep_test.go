package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stepClock sets the wall clock of a running process, and of it alone, by so much beside the
// real one; 0 takes that back. The monotonic clock goes on. Go programs do not call the C
// library for the time, so libfaketime does not reach them: they call the kernel's vDSO, whose
// copy in that process gets other code.
func stepClock(pid int, by time.Duration) error {
	begin, image, err := vdso(pid)
	if err != nil {
		return fmt.Errorf("step the clock of process %d: %w", pid, err)
	}
	at, err := vdsoSymbol(image, "__vdso_clock_gettime")
	if err != nil {
		return fmt.Errorf("step the clock of process %d: %w", pid, err)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("step the clock: %w", err)
	}
	_, err = mem.WriteAt(steppedClock(by), begin+at)
	return errors.Join(err, mem.Close())
}

// steppedClock is clock_gettime in machine code of amd64: the system call, whose seconds get
// the step if the clock is CLOCK_REALTIME (0).
func steppedClock(by time.Duration) []byte {
	code := []byte{
		0x57, 0x56, // push rdi; push rsi
		0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
		0x0f, 0x05, // syscall
		0x5e, 0x5f, // pop rsi; pop rdi
		0x85, 0xff, // test edi, edi
		0x75, 0x0d, // jne to ret
		0x48, 0xb9, // mov rcx, seconds
	}
	code = binary.LittleEndian.AppendUint64(code, uint64(int64(by/time.Second)))
	return append(code, 0x48, 0x01, 0x0e, 0xc3) // add [rsi], rcx; ret
}

// vdso returns where the vDSO of a process begins, and its bytes.
func vdso(pid int) (begin int64, image []byte, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(maps)) {
		var end int64
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &begin, &end); err != nil {
			return 0, nil, err
		}
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return 0, nil, err
		}
		defer mem.Close()
		image, err = io.ReadAll(io.NewSectionReader(mem, begin, end-begin))
		return begin, image, err
	}
	return 0, nil, errors.New("it has no vDSO")
}

func vdsoSymbol(image []byte, name string) (at int64, err error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	if file.Machine != elf.EM_X86_64 {
		return 0, fmt.Errorf("the code of the clock is for amd64, and this machine is %v", file.Machine)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == name {
			return int64(s.Value), nil
		}
	}
	return 0, fmt.Errorf("the vDSO has no %s", name)
}

// clockName is the name under which the test binary is a clock: for each line that it reads it
// prints the time in seconds, and the nanoseconds of its monotonic clock since its start.
const clockName = "clock"

func runClock() int {
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now := time.Now()
		fmt.Println(now.Unix(), now.Sub(began).Nanoseconds())
	}
	return 0
}

// The wall clock of another process is stepped, its monotonic clock is not, nor is ours.
func TestStepClock(t *testing.T) {
	t.Parallel()
	clock := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("WEIR_TEST_BIN"), clockName))
	in, err := clock.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := clock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := offspring.Start(clock); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	read := func() (wall, since int64) {
		t.Helper()
		if _, err := fmt.Fprintln(in); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscanln(answers, &wall, &since); err != nil {
			t.Fatal(err)
		}
		return wall, since
	}
	// Start may return before the kernel has mapped the vDSO. An answer shows that the program runs.
	_, last := read()
	for _, by := range []time.Duration{0, time.Hour, -2 * time.Hour, 0} {
		if err := stepClock(clock.Process.Pid, by); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		wall, since := read()
		after := time.Now()
		if real := wall - int64(by/time.Second); real < before.Unix() || real > after.Unix() {
			t.Errorf("stepped by %v the clock is at %d, want %v more than between %d and %d", by, wall, by, before.Unix(), after.Unix())
		}
		if since <= last || since > after.Sub(before).Nanoseconds()+int64(patience) {
			t.Errorf("stepped by %v the monotonic clock went from %d to %d", by, last, since)
		}
		last = since
	}
	if err := errors.Join(in.Close(), clock.Wait()); err != nil {
		t.Error(err)
	}
}
