// args: [seconds=5]
// PROC-02: ignores and blocks every signal that can be, then overstays its wall limit.
#include "proc/outlive.h"

int main(int argc, char **argv) {
    long seconds = number(argc, argv, 1, 5, 60);
    deafen();
    NOTE("deaf now");
    sleep_ms(seconds * 1000);
    BREACH("overstayed for %ld s, deaf to every signal", seconds);
    return 0;
}
