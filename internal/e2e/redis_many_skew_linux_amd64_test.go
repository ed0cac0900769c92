package e2e

import (
	"bufio"
	"debug/elf"
	bytesof "encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// startWithClock starts a process whose wall clock is off. Tools like faketime replace functions of the C library, which Go
// does not call: it asks the code that the kernel maps into each process. The process is stopped before its first
// instruction and gets other code there, which asks the kernel and adds. The monotonic clock stays right.
func startWithClock(cmd *exec.Cmd, off time.Duration) error {
	runtime.LockOSThread() // the kernel knows the thread as the tracer
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("waiting for the process to stop: status %#x, %w", status, err)
	}
	err := patchClock(pid, off)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	if detach := syscall.PtraceDetach(pid); err == nil {
		err = detach
	}
	return err
}

func patchClock(pid int, off time.Duration) error {
	// mov eax, SYS_clock_gettime; syscall; test edi, edi; jne end; mov rcx, seconds; add [rsi], rcx; end: ret
	code := []byte{0xb8, syscall.SYS_CLOCK_GETTIME, 0, 0, 0, 0x0f, 0x05, 0x85, 0xff, 0x75, 0x0d, 0x48, 0xb9}
	code = bytesof.LittleEndian.AppendUint64(code, uint64(int64(off/time.Second)))
	code = append(code, 0x48, 0x01, 0x0e, 0xc3)

	begin, end, err := vdso(pid)
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	image, err := elf.NewFile(io.NewSectionReader(mem, begin, end-begin))
	if err != nil {
		return err
	}
	symbols, err := image.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= uint64(len(code)) {
			_, err = mem.WriteAt(code, begin+int64(s.Value))
			return err
		}
	}
	return fmt.Errorf("no room for %d bytes at __vdso_clock_gettime", len(code))
}

// vdso is where the kernel's code lies in the process.
func vdso(pid int) (begin, end int64, err error) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if strings.HasSuffix(lines.Text(), "[vdso]") {
			_, err = fmt.Sscanf(lines.Text(), "%x-%x", &begin, &end)
			return begin, end, err
		}
	}
	return 0, 0, fmt.Errorf("process %d has no vdso", pid)
}
