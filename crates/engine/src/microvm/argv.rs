//! What the monitor is told. Pure: the same order gives the same words.

use std::os::fd::RawFd;
use std::time::Duration;

use super::{Accelerator, Order, TRANSLATED_MIB};
use crate::jail::apply::STREAM;

/// Where the monitor's own root shows the kernel and the initramfs.
pub(crate) const KERNEL_DIR: &str = "/kernel";
pub(crate) const INITRAMFS_DIR: &str = "/initramfs";

/// Descriptors that the monitor inherits, besides the guest's stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) control: RawFd,
    pub(crate) image: RawFd,
    pub(crate) disk: RawFd,
}

/// Work of the kernel's start that no machine has a use for: tracing of probes,
/// keys for signatures that are not checked, tests of algorithms.
const SKIPPED: &str = "init_kprobe_trace,crypto_kdf108_init,load_system_certificate_list";

pub(crate) fn arguments(order: &Order, numbers: Numbers, now: Duration) -> Vec<String> {
    let Order { program, shape, incoming } = order;
    let mut words = vec![program.to_string_lossy().into_owned()];
    let mut say = |option: &str, value: String| {
        words.push(option.to_owned());
        if !value.is_empty() {
            words.push(value);
        }
    };
    let Numbers { control, image, disk } = numbers;
    // Nothing but what is named here.
    say("-nodefaults", String::new());
    say("-no-user-config", String::new());
    say("-display", "none".into());
    // The monitor's own filter, on top of ours: from then on it starts nothing.
    say(
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".into(),
    );
    // Without its clock chip a kernel waits for it twice, a second each.
    say("-machine", "microvm,pic=on,pit=on,rtc=on,isa-serial=on,usb=off".into());
    say("-global", "virtio-mmio.force-legacy=false".into());
    let (accelerator, processor) = match shape.accelerator {
        Accelerator::Kvm => ("kvm".to_owned(), "host,vmx=off,svm=off"),
        Accelerator::Tcg => (format!("tcg,tb-size={TRANSLATED_MIB}"), "max,vmx=off,svm=off"),
    };
    say("-accel", accelerator);
    say("-cpu", processor.into());
    say("-smp", shape.cpus.to_string());
    say("-m", format!("{}M", shape.memory_mib));
    if *incoming {
        say("-incoming", "defer".into());
    } else {
        say("-kernel", format!("{KERNEL_DIR}/kernel"));
        say("-initrd", format!("{INITRAMFS_DIR}/initramfs"));
        say("-append", kernel_words(order, now));
    }
    // Every way in which a machine can stop is the end of the monitor.
    say("-no-reboot", String::new());
    say("-action", "reboot=shutdown,shutdown=poweroff,panic=exit-failure".into());
    say("-chardev", format!("socket,id=control,fd={control}"));
    say("-mon", "chardev=control,mode=control".into());
    // Whatever a machine prints, the host keeps the last of it and no more.
    say("-chardev", "ringbuf,id=console,size=65536".into());
    say("-serial", "chardev:console".into());
    // In this order the guest finds them as `vport0p1`, `vda`, `vdb`.
    say("-chardev", format!("socket,id=stream,fd={STREAM}"));
    say("-device", "virtio-serial-device,max_ports=2".into());
    say("-device", "virtserialport,chardev=stream,name=belljar.stream".into());
    say("-add-fd", format!("set=1,fd={image}"));
    say(
        "-blockdev",
        "driver=raw,node-name=root,read-only=on,file.driver=file,file.filename=/dev/fdset/1,\
         file.locking=off"
            .into(),
    );
    say("-device", "virtio-blk-device,drive=root".into());
    say("-add-fd", format!("set=2,fd={disk}"));
    // In memory, and gone with the machine: there is nothing to flush.
    say(
        "-blockdev",
        "driver=raw,node-name=disk,discard=unmap,cache.no-flush=on,file.driver=file,\
         file.filename=/dev/fdset/2,file.locking=off,file.discard=unmap"
            .into(),
    );
    say("-device", "virtio-blk-device,drive=disk".into());
    words
}

/// The kernel's command line.
fn kernel_words(order: &Order, now: Duration) -> String {
    let shape = &order.shape;
    let mut words = vec![
        "console=ttyS0".to_owned(),
        "quiet".to_owned(),
        "panic=-1".to_owned(),
        "reboot=t".to_owned(),
        format!("tsc_early_khz={}", shape.clock_khz),
        "no_timer_check".to_owned(),
        "cryptomgr.notests".to_owned(),
        "audit=0".to_owned(),
        "lsm=landlock".to_owned(),
        format!("initcall_blacklist={SKIPPED}"),
        // As on a large host: memory is refused when it is used, not when it is
        // asked for, and whoever uses too much ends of that.
        "sysctl.vm.overcommit_memory=1".to_owned(),
    ];
    if shape.accelerator == Accelerator::Tcg {
        words.push("tsc=reliable".to_owned());
        // What these guard against is done by processors, not by translated
        // code, and they make every system call of an emulated machine slow.
        words.push("mitigations=off".to_owned());
        // Some versions get the flags of cx16's instruction wrong, on which the
        // kernel's allocator would rest. Programs must still find the feature:
        // libraries that are built for x86-64-v2 ask for it and hardly use it.
        words.push("clearcpuid=141".to_owned());
    }
    words.push(format!("belljar.time={}.{:09}", now.as_secs(), now.subsec_nanos()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::Shape;
    use super::*;

    fn order(accelerator: Accelerator, incoming: bool) -> Order {
        let shape = Shape { accelerator, memory_mib: 592, cpus: 2, clock_khz: 2_000_000 };
        Order { program: "/usr/bin/qemu-system-x86_64".into(), shape, incoming }
    }

    const NUMBERS: Numbers = Numbers { control: 11, image: 12, disk: 13 };

    fn said(order: &Order) -> String {
        let words = arguments(order, NUMBERS, Duration::new(1_700_000_000, 5));
        let mut text = String::new();
        for word in words {
            text.push(if word.starts_with('-') { '\n' } else { ' ' });
            text.push_str(&word);
        }
        text
    }

    #[test]
    fn a_machine_has_what_is_named_here_and_nothing_else() {
        expect![[r#"
             /usr/bin/qemu-system-x86_64
            -nodefaults
            -no-user-config
            -display none
            -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
            -machine microvm,pic=on,pit=on,rtc=on,isa-serial=on,usb=off
            -global virtio-mmio.force-legacy=false
            -accel tcg,tb-size=64
            -cpu max,vmx=off,svm=off
            -smp 2
            -m 592M
            -kernel /kernel/kernel
            -initrd /initramfs/initramfs
            -append console=ttyS0 quiet panic=-1 reboot=t tsc_early_khz=2000000 no_timer_check cryptomgr.notests audit=0 lsm=landlock initcall_blacklist=init_kprobe_trace,crypto_kdf108_init,load_system_certificate_list sysctl.vm.overcommit_memory=1 tsc=reliable mitigations=off clearcpuid=141 belljar.time=1700000000.000000005
            -no-reboot
            -action reboot=shutdown,shutdown=poweroff,panic=exit-failure
            -chardev socket,id=control,fd=11
            -mon chardev=control,mode=control
            -chardev ringbuf,id=console,size=65536
            -serial chardev:console
            -chardev socket,id=stream,fd=3
            -device virtio-serial-device,max_ports=2
            -device virtserialport,chardev=stream,name=belljar.stream
            -add-fd set=1,fd=12
            -blockdev driver=raw,node-name=root,read-only=on,file.driver=file,file.filename=/dev/fdset/1,file.locking=off
            -device virtio-blk-device,drive=root
            -add-fd set=2,fd=13
            -blockdev driver=raw,node-name=disk,discard=unmap,cache.no-flush=on,file.driver=file,file.filename=/dev/fdset/2,file.locking=off,file.discard=unmap
            -device virtio-blk-device,drive=disk"#]].assert_eq(&said(&order(Accelerator::Tcg, false)));
    }

    #[test]
    fn a_restored_machine_is_the_same_but_for_its_kernel() {
        let fresh = said(&order(Accelerator::Tcg, false));
        let restored = said(&order(Accelerator::Tcg, true));
        let differs = |line: &&str| {
            !["-kernel ", "-initrd ", "-append ", "-incoming "].iter().any(|o| line.starts_with(o))
        };
        let rest = |text: &str| text.lines().filter(differs).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(rest(&fresh), rest(&restored));
        assert!(restored.contains("\n-incoming defer"));
    }

    #[test]
    fn no_machine_has_a_network_or_machines_of_its_own() {
        for accelerator in [Accelerator::Kvm, Accelerator::Tcg] {
            let said = said(&order(accelerator, false));
            assert!(!said.contains("net") && said.contains("vmx=off,svm=off"), "{said}");
        }
    }
}
