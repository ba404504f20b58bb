/* Linked into the static program: what the C library would take from the machine that it runs on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nss.h>
#include <string.h>
#include <sys/random.h>

/* Which C library is in the program, beside the compilers that the linker lists (`readelf -p .comment`). */
__asm__(".ident \"glibc version " GLIBC_VERSION "\"");

/* Where names of hosts and users are looked up: in the files in /etc, and by DNS.
 *
 * /etc/nsswitch.conf may name modules of the machine, such as mdns4_minimal, resolve or sss. A static
 * program would load them together with the C library of the machine, which works with the very same
 * version at best.
 */
__attribute__((constructor)) static void look_in_files_and_dns(void) {
    __nss_configure_lookup("hosts", "files dns");
    __nss_configure_lookup("passwd", "files");
    __nss_configure_lookup("group", "files");
}

/* There are no libraries in which a function could be found by its name while the program runs. Crates
 * look for getrandom so, and would else read /dev/urandom, which an empty root directory does not have.
 */
void *dlsym(void *library, const char *name) {
    (void)library;
    return strcmp(name, "getrandom") == 0 ? (void *)getrandom : NULL;
}
