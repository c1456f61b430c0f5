/* What reaches the terminal on standard output. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

/* From now on, whatever is printed shows what a terminal would otherwise obey. */
void terminal_guard(void);

#endif
