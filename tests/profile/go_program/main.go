package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

var kept [][]byte
var sum int

func burn(until time.Time) {
	for time.Now().Before(until) {
		for i := 0; i < 10000; i++ {
			sum += i * i
		}
	}
}
func hold()     { kept = append(kept, make([]byte, 1<<20)) }
func throwAway() { _ = fmt.Sprint(make([]int, 20000)) }
func contend() {
	var m sync.Mutex
	var wg sync.WaitGroup
	for i := 0; i < 4; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := 0; j < 20; j++ {
				m.Lock()
				time.Sleep(time.Millisecond)
				m.Unlock()
			}
		}()
	}
	wg.Wait()
}
func main() {
	runtime.MemProfileRate = 4096
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	folder := os.Args[1]
	cpu, _ := os.Create(folder + "/cpu.pb.gz")
	pprof.StartCPUProfile(cpu)
	burn(time.Now().Add(700 * time.Millisecond))
	pprof.StopCPUProfile()
	cpu.Close()
	for i := 0; i < 20; i++ {
		hold()
		throwAway()
	}
	contend()
	runtime.GC()
	for _, name := range []string{"heap", "allocs", "goroutine", "mutex", "block", "threadcreate"} {
		file, _ := os.Create(folder + "/" + name + ".pb.gz")
		pprof.Lookup(name).WriteTo(file, 0)
		file.Close()
	}
	text, _ := os.Create(folder + "/goroutine.txt")
	pprof.Lookup("goroutine").WriteTo(text, 1)
	text.Close()
}
